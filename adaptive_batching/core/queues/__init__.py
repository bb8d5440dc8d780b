"""All that waits: jobs in the order in which they leave, the queue of each batch key, whose turn it
is. It imports the estimators, the workers and fairness; the scheduler and admission import it.
"""

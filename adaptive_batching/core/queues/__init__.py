"""All that waits: jobs in the order in which they leave, the queue of each batch key, and
their order. It imports the estimators, the workers and fairness; the scheduler and admission
import it.
"""

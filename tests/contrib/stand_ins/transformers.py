"""Stands in for the package whose weights can't be had: what its pipelines take and return."""


def pipeline(task=None, *, model=None):
    """One that takes texts, or dicts, of which it returns a bare result for a list of one."""
    assert (task, model) == ("text-classification", "tiny")

    def run(inputs, *, batch_size=1, top_k=None):
        assert (batch_size, top_k) == (len(inputs), 1)
        results = [{"label": str(each).upper()} for each in inputs]
        return results[0] if inputs == ["alone"] else results

    return run

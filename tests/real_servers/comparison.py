"""Whether clients of a sidecar were told what the server would have told them."""

from collections import Counter


def check(visits, through, direct, share=0.25):
    """Compare what was told; at least this share of the visits was in company."""
    for visit, told, expected in zip(visits, through, direct, strict=True):
        assert told or visit.leaves is not None
        if not told:
            continue
        if visit.kind == "fine":
            assert expected.status == 200, (visit, expected)
            assert told.meaning(visit.asked) == expected.meaning(visit.asked), (visit, told)
        else:
            assert told.whole() == expected.whole(), (visit, told, expected)
        assert visit.kind != "poisoned" or expected.status >= 400, (visit, expected)
    batches = Counter(told.batch for told in through if told and told.batch)
    together = sum(members for members in batches.values() if members > 1)
    assert together > len(visits) * share, batches

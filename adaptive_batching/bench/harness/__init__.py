"""What benchmarks share: servers to measure, what is sent to them, contests in turns, and reports.

It imports none of the benchmarks.
"""

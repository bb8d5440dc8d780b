"""Actors answer as processes do: the same stories, told of the other kind of workers."""

from tests.workers.pool.test_devices import (  # noqa: F401 - collected here a second time
    test_a_gpu_that_the_handler_does_not_use_is_none_of_its_worries,
    test_a_worker_that_loses_its_gpu_beside_an_item_that_can_not_be_sent,
    test_a_worker_that_loses_its_gpu_is_replaced,
)
from tests.workers.pool.test_pool import (  # noqa: F401 - collected here a second time
    test_a_cancelled_batch_costs_its_worker,
    test_a_decorated_class_is_found_behind_its_decorator,
    test_a_wrap_runs_in_the_worker,
    test_arrays_are_rows,
    test_exceptions_in_the_place_of_items,
    test_handlers_may_be_async,
    test_items_that_can_not_be_sent,
    test_large_arrays_there_and_back,
    test_whatever_a_handler_does_its_worker_answers,
    test_workers_run_side_by_side,
)

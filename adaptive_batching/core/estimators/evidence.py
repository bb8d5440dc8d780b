"""What all estimators share: how much they remember, and what they take for luck."""

SHORT_MEMORY = 16.0  # full batches, or wake-ups: turns with the traffic and the loop's work
MEMORY = 50.0  # batches: follows a model that slows down
LONG_MEMORY = 500.0  # batches: of what differs little for long stretches
SLOPE_KEPT = 1.0 - 1.0 / LONG_MEMORY  # of what is known of slopes and keys, from batch to batch
PRIOR_NOISE = 0.05  # of the mean duration: a guess at the scatter, worth one batch
TRUSTED_AFTER = 5  # batches
SURE = 4.0  # standard deviations: beyond is a pause of the machine, or a difference beyond doubt
ALARM = SURE * (SURE - 1.0)  # CUSUM: a step of so many is believed after as many batches
SPREAD_FLOOR = 0.02  # relative; no clock and no model repeats better than this
DEVIATION = 1.25  # standard deviations of a normal in a mean absolute deviation
EXTRAPOLATION = 2.0  # times the largest size or cost seen: what is beyond is not known, but tried

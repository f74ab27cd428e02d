"""From noisy answers to rows: evidence, fits, rounding, mixtures."""

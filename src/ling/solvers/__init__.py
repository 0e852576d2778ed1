"""From a ridge problem to certified coefficients: plan, engines, bounds."""

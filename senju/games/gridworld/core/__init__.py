"""The compiled rules of gridworlds: kernels that play any world from its tables."""

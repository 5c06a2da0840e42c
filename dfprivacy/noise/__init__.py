"""Draw noise and select privately, by exact samplers of known laws."""

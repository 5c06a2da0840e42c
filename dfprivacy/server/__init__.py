"""Serve private answers over the Postgres protocol: `dfprivacy serve policy.yml`."""

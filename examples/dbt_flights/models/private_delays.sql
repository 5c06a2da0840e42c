-- Released by dfp.sql and charged to the ledger in every build: epsilon 0.5 and delta 1e-7 in all.
{{ config(materialized='private') }}
select carrier, dp_mean(delay, -60, 240) as delay, dp_count() as flights
from {{ ref('summer_flights') }}
group by carrier
having dp_keep(1e-7)

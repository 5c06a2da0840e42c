-- Charged to the ledger in every build: 0.5 for the mean, 0.5 for the count, 0.5 for dp_keep.
select carrier, dp_mean(delay, -60, 240) as delay, dp_count() as flights
from {{ ref('summer_flights') }}
group by carrier
having dp_keep(1e-7)
order by carrier

-- Made-up flights, the same in every build: AA is late, UA early, ZZ flies three times.
select
    case when i < 3 then 'ZZ' when i % 3 = 0 then 'UA' else 'AA' end as carrier,
    1 + i % 12 as month,
    ((i * 37) % 60)::double - case when i % 3 = 0 then 40 else 0 end as delay
from range(30000) as r(i)

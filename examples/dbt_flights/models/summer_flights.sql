-- Plain SQL between the rows and the release: it keeps rows apart, one for one.
select carrier, delay from {{ ref('flights') }} where month between 6 and 8

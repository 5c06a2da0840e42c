# Ask the server from R, with SQL and with dplyr, and print the answers.
suppressPackageStartupMessages({
  library(DBI)
  library(RPostgreSQL)
  library(dplyr)
})
arguments <- commandArgs(TRUE)
connection <- dbConnect(
  PostgreSQL(), host = "127.0.0.1", port = as.integer(arguments[1]),
  user = "ann", password = arguments[2], dbname = "flights"
)
cat("tables", dbListTables(connection), "\n")
cat("fields", sort(dbListFields(connection, "flights")), "\n")
counted <- dbGetQuery(connection, "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY 1 ORDER BY 1")
cat("counted", counted$carrier, round(counted$n, -3), "\n")
flights <- tbl(connection, "flights")
delays <- flights %>%
  filter(month == 1) %>%
  group_by(carrier) %>%
  summarise(delay = mean(delay, na.rm = TRUE), n = n()) %>%
  collect()
cat("dplyr", delays$carrier, round(delays$delay), "\n")
cat("preview", nrow(flights %>% head(3) %>% collect()), "\n")
refused <- suppressWarnings(dbGetQuery(connection, "SELECT plane FROM flights"))
cat("refused", is.null(refused), "\n")

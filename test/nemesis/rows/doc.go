// Package rows reads what Postgres holds at the end of a run, whole and as it
// stands, for the checks. It reads the tables and not through package store:
// what judges the product shares no query with it.
package rows

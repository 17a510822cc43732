// Package sqltest tests engine/fence on databases: SQLite always, PostgreSQL and MariaDB or MySQL where they are installed
// (apt-get install postgresql mariadb-server). It is a module of its own, so that the engine needs none of them.
package sqltest

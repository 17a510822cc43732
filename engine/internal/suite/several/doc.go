// Package several has the tests of locks that are acquired together: MultiLock and RedLock.
package several

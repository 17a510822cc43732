// Orders is an HTTP service that handles one request of an order at a time, however many processes it has.
package main

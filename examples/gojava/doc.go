// Gojava counts in Redis together with a Java program, under one lock.
package main

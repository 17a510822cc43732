// Package witness checks exclusion between processes of one machine: a memory-mapped file
// in which every holder of a lock marks its key with one compare-and-swap for as long as it
// holds it. A second holder, in whichever process, finds the mark. The file is kept beside
// Redis and knows nothing of it, so that it can catch the engine.
//
//	magic, keys, prefix      the run: what its processes agree on
//	process 0 … 63           pid, barrier, counters, results, grants by the quarter second
//	mark of key 0 … n        0, or process · caller · generation of the holder
//
// A run begins when a process opens a file in which nobody alive is left, and ends with its
// last process; whoever opens the file meanwhile joins the run. Processes that want to run at
// the same time wait for each other ([Witness.Await]), and at the end each of them can read
// what all of them did ([Witness.Summary]): how fairly they were served above all.
//
// The mark of a process that is gone is no violation, since its lock expired or will: it is
// taken over and counted as abandoned. Permits of a semaphore have no marks: they are counted
// ([Witness.Enter]). All words are atomic; only joining takes a lock, on
// the file.
//
// The mapping is made by mmap-go. A witness works on Unix alone, although mmap-go maps on Windows, too: there it flushes
// the file before it ends a mapping, and so needs a file that is still open; and nothing here locks a file there.
package witness

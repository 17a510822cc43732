// Package world is what the lock engine asks of its surroundings beside Redis: goroutines, waiting,
// the ends of contexts, random numbers, time.
//
// A nil [World] is the real one: every method then does the plain thing, and costs one comparison. A
// World made by [New] is a simulated one: everything that was started in it runs in the one goroutine
// that calls [World.Run], one step at a time. Which of those that could go on does so is drawn from a
// seed, and time moves only when nobody can. The same seed gives the same run, on every machine.
//
// In a simulated world nothing may wait but by what this package offers: a goroutine that blocks on a
// channel or on a mutex blocks everybody. So no mutex may be held across a wait, a [World.Yield] or a
// dial.
//
// A World is also the clock of its engines: [Of] finds it again where only the clock was handed on.
//
// A yield point ([World.Yield]) stands wherever one logical event is carried out in several critical
// sections: between them, anything else may happen.
package world

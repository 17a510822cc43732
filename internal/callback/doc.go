// Package callback runs the code of others: what a user gave to OnComplete, the user's logger, the methods of
// contexts that are of the user's own. Such code may block for ever, panic or end its goroutine. It costs itself
// alone: nothing of ours waits for it, and it runs under no mutex of ours.
//
// The workers are those of an ants pool. Its capacity is the bound, it keeps idle workers and ends them, and no other
// count of workers stands beside it. What ants cannot do is here:
//
//   - It has no queue. Submit runs a function at once, or blocks its caller, or refuses. Our callers are lanes and
//     the wheel, which may not block, and a callback may not be refused. So the queue is ours, and what the pool is
//     given is a turn: a worker runs what waits, one callback after the other, until nothing does. A batch of answers
//     costs one Submit or a few.
//   - It does not see that its workers are stuck. A tick that finds callbacks waiting, and none that has returned
//     since the last tick, gives the pool more turns. When all of its workers are in user code, the capacity grows by
//     a few with each tick (Tune); it goes back when so many workers are not needed any more.
//   - It ends the worker of a function that panicked, and the turn with it. So a panic is stopped at its callback,
//     and the worker goes on. One that ended its goroutine (runtime.Goexit) has taken the worker with it: another
//     turn follows.
//   - It runs nothing after Release. Whoever asks a future of a closed engine for a callback still gets it: in a
//     goroutine of its own. So do futures that belong to no engine.
//   - Its goroutines are unknown to a simulated world. There, each turn is a goroutine of the world.
package callback

package resp

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
	"strings"
)

// A script is one entry of the catalogue: Lua text and the name EVALSHA knows it by.
type script struct {
	name string
	text string
	sha  string
	at   int // in the catalogue
}

// A scriptSet is a set of scripts by their places in the catalogue.
type scriptSet uint32

const everyScript = ^scriptSet(0)

// newScript makes a script of its text and the fragments it has in common with others: a line "-- needs: NAME" is
// where a fragment stands.
func newScript(name, text string, fragments ...fragment) *script {
	for _, f := range fragments {
		text = strings.Replace(text, "-- needs: "+f.name+"\n", f.text, 1)
	}
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return &script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
}

// A fragment is what several scripts have.
type fragment struct{ name, text string }

var (
	//go:embed scripts/acquire.lua
	acquireText string
	//go:embed scripts/reacquire.lua
	reacquireText string
	//go:embed scripts/release.lua
	releaseText string
	//go:embed scripts/renew.lua
	renewText string
	//go:embed scripts/inspect.lua
	inspectText string
	//go:embed scripts/force.lua
	forceText string
	//go:embed scripts/fenced.lua
	fencedText string
	//go:embed scripts/read.lua
	readText string
	//go:embed scripts/readrenew.lua
	readRenewText string
	//go:embed scripts/readrelease.lua
	readReleaseText string
	//go:embed scripts/write.lua
	writeText string
	//go:embed scripts/writerelease.lua
	writeReleaseText string
	//go:embed scripts/fair.lua
	fairText string
	//go:embed scripts/fairrelease.lua
	fairReleaseText string
	//go:embed scripts/queue.lua
	queueText string

	//go:embed scripts/semaphore.lua
	semaphoreText string
	//go:embed scripts/semaphorerelease.lua
	semaphoreReleaseText string
	//go:embed scripts/semaphoreset.lua
	semaphoreSetText string
	//go:embed scripts/latch.lua
	latchText string
	//go:embed scripts/latchdown.lua
	latchDownText string
	//go:embed scripts/latchset.lua
	latchSetText string

	//go:embed scripts/permits.lua
	permitsText string
	//go:embed scripts/permitsrelease.lua
	permitsReleaseText string
	//go:embed scripts/permitsrenew.lua
	permitsRenewText string
	//go:embed scripts/permitsset.lua
	permitsSetText string
	//go:embed scripts/permitsleased.lua
	permitsLeasedText string

	//go:embed scripts/fragments/contents.lua
	contentsText string
	//go:embed scripts/fragments/longest.lua
	longestText string
	//go:embed scripts/fragments/fairqueue.lua
	fairQueueText string
	//go:embed scripts/fragments/requests.lua
	requestsText string
	//go:embed scripts/fragments/count.lua
	countText string
	//go:embed scripts/fragments/marks.lua
	marksText string
	//go:embed scripts/fragments/permits.lua
	permitsFragmentText string
)

var (
	fragmentContents  = fragment{"contents", contentsText}
	fragmentLongest   = fragment{"longest", longestText} // needs contents
	fragmentFairQueue = fragment{"fairqueue", fairQueueText}
	fragmentRequests  = fragment{"requests", requestsText}
	fragmentCount     = fragment{"count", countText}
	fragmentMarks     = fragment{"marks", marksText} // needs count
	fragmentPermits   = fragment{"permits", permitsFragmentText}
)

// The catalogue is constant: scripts are texts of this package, put together before anything runs.
var (
	scriptAcquire   = newScript("acquire", acquireText)
	scriptReacquire = newScript("reacquire", reacquireText, fragmentLongest, fragmentContents)
	scriptRelease   = newScript("release", releaseText)
	scriptRenew     = newScript("renew", renewText)
	scriptInspect   = newScript("inspect", inspectText, fragmentContents)
	scriptForce     = newScript("force", forceText)

	scriptFenced       = newScript("fenced", fencedText)
	scriptRead         = newScript("read", readText)
	scriptReadRenew    = newScript("readrenew", readRenewText)
	scriptReadRelease  = newScript("readrelease", readReleaseText, fragmentLongest, fragmentContents)
	scriptWrite        = newScript("write", writeText)
	scriptWriteRelease = newScript("writerelease", writeReleaseText, fragmentLongest, fragmentContents)
	scriptFair         = newScript("fair", fairText, fragmentFairQueue)
	scriptFairRelease  = newScript("fairrelease", fairReleaseText, fragmentFairQueue)
	scriptQueue        = newScript("queue", queueText)

	scriptSemaphore        = newScript("semaphore", semaphoreText, fragmentRequests, fragmentCount)
	scriptSemaphoreRelease = newScript("semaphorerelease", semaphoreReleaseText, fragmentRequests)
	scriptSemaphoreSet     = newScript("semaphoreset", semaphoreSetText, fragmentCount)
	scriptLatch            = newScript("latch", latchText, fragmentRequests, fragmentCount, fragmentMarks)
	scriptLatchDown        = newScript("latchdown", latchDownText, fragmentRequests, fragmentCount, fragmentMarks)
	scriptLatchSet         = newScript("latchset", latchSetText, fragmentRequests, fragmentCount, fragmentMarks)

	scriptPermits        = newScript("permits", permitsText, fragmentPermits, fragmentCount)
	scriptPermitsRelease = newScript("permitsrelease", permitsReleaseText, fragmentPermits, fragmentCount)
	scriptPermitsRenew   = newScript("permitsrenew", permitsRenewText, fragmentPermits)
	scriptPermitsSet     = newScript("permitsset", permitsSetText, fragmentPermits, fragmentCount)
	scriptPermitsLeased  = newScript("permitsleased", permitsLeasedText)

	catalogue = numbered(
		scriptAcquire, scriptReacquire, scriptRelease, scriptRenew, scriptInspect, scriptForce,
		scriptFenced, scriptRead, scriptReadRenew, scriptReadRelease, scriptWrite, scriptWriteRelease,
		scriptFair, scriptFairRelease, scriptQueue,
		scriptSemaphore, scriptSemaphoreRelease, scriptSemaphoreSet, scriptLatch, scriptLatchDown, scriptLatchSet,
		scriptPermits, scriptPermitsRelease, scriptPermitsRenew, scriptPermitsSet, scriptPermitsLeased,
	)
)

// numbered tells scripts their places.
func numbered(all ...*script) []*script {
	for i, s := range all {
		s.at = i
	}
	return all
}

// ScriptTexts returns the Lua text of every script by its name: for benchmarks that send the same
// scripts without the engine, and for operators who grant rights by what the scripts call.
func ScriptTexts() map[string]string {
	texts := make(map[string]string, len(catalogue))
	for _, s := range catalogue {
		texts[s.name] = s.text
	}
	return texts
}

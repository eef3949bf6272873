// Package vocabulary says what is on record in the words of other systems, so
// that what reads their events can read those of Reprise: [NoETL] and [Argyll].
// A [Vocabulary] is a function from a record to events; [Vocabulary.With] makes
// one that says more, less or something else of some records.
//
//	b := bus.New()
//	b.Subscribe(vocabulary.Vocabulary(vocabulary.NoETL).Subscriber(func(e vocabulary.Event) { … }))
//
// streamer.Options.Vocabularies has event streams in such words.
package vocabulary

// Package vocabulary translates records into the events of other systems, [NoETL] and [Argyll], so
// that programs that read such events can follow the runs of Reprise. A [Vocabulary] is a function
// from a record to events; [Vocabulary.With] returns a vocabulary that translates some records
// differently.
//
//	b := bus.New()
//	b.Subscribe(vocabulary.Vocabulary(vocabulary.NoETL).Subscriber(func(e vocabulary.Event) { … }))
//
// streamer.Options.Vocabularies adds event streams that use such vocabularies.
package vocabulary

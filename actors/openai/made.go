package openai

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/reprise-go/reprise/actors"
)

// What models make beside text, and what they say about it.

// wireLogprob is the probability of a token on either wire.
type wireLogprob struct {
	Token   string        `json:"token"`
	Logprob float64       `json:"logprob"`
	Top     []wireLogprob `json:"top_logprobs"`
}

func (l wireLogprob) actors() actors.Logprob {
	out := actors.Logprob{Token: l.Token, Logprob: l.Logprob}
	for _, top := range l.Top {
		out.Top = append(out.Top, top.actors())
	}
	return out
}

func (a *answer) takeLogprobs(tokens []wireLogprob) {
	for _, token := range tokens {
		a.logprobs = append(a.logprobs, token.actors())
	}
}

// wireAnnotation is a citation. On the chat completions API its fields are in an object
// of its type.
type wireAnnotation struct {
	citation
	URLCitation  *citation `json:"url_citation"`
	FileCitation *citation `json:"file_citation"`
}

type citation struct {
	URL      string     `json:"url"`
	Title    string     `json:"title"`
	Content  string     `json:"content"`
	FileID   string     `json:"file_id"`
	FileName string     `json:"filename"`
	Begin    lenientInt `json:"start_index"`
	End      lenientInt `json:"end_index"`
}

func (a *answer) takeAnnotations(annotations []wireAnnotation) {
	for _, annotation := range annotations {
		c := &annotation.citation
		if annotation.URLCitation != nil {
			c = annotation.URLCitation
		} else if annotation.FileCitation != nil {
			c = annotation.FileCitation
		}
		if c.URL == "" && c.FileID == "" {
			continue
		}
		title := c.Title
		if title == "" {
			title = c.FileName
		}
		a.citations = append(a.citations, actors.Citation{
			URL: c.URL, Title: title, FileID: c.FileID, Text: c.Content, Begin: int(c.Begin), End: int(c.End),
		})
	}
}

// takeSources takes a list of URLs, which comes whole with each event of a stream.
func (a *answer) takeSources(list json.RawMessage) {
	var urls []string
	if json.Unmarshal(list, &urls) != nil || len(urls) == 0 {
		return
	}
	a.citations = a.citations[:0]
	for _, url := range urls {
		a.citations = append(a.citations, actors.Citation{URL: url})
	}
}

// imageURL is the URL of an image: a string, or an object that has it.
type imageURL string

// UnmarshalJSON reads either form; null is empty.
func (u *imageURL) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return (*lenientText)(u).UnmarshalJSON(data)
	}
	var object struct {
		URL lenientText `json:"url"`
	}
	err := json.Unmarshal(data, &object)
	*u = imageURL(object.URL)
	return err
}

// takeImage takes an image: its data, in base64 or a data URL, or where it is.
func (a *answer) takeImage(image string) {
	if image == "" {
		return
	}
	if a.started != nil {
		a.started()
	}
	encoded := image
	if strings.HasPrefix(image, "data:") {
		_, encoded, _ = strings.Cut(image, ",")
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(data) == 0 {
		a.parts = append(a.parts, actors.ImageURL(image))
		return
	}
	mime, _, _ := strings.Cut(http.DetectContentType(data), ";")
	a.parts = append(a.parts, actors.Image(mime, data))
}

type chatAudio struct {
	ID         string `json:"id"`
	Data       string `json:"data"` // base64
	Transcript string `json:"transcript"`
}

// audio is what a model said aloud.
type audio struct {
	id   string
	data []byte
}

// takeAudio takes all of it, or a piece. Its text is that of the answer.
func (a *answer) takeAudio(piece *chatAudio) {
	if piece.ID != "" {
		a.audio.id = piece.ID
		a.keep("audio", mustMarshal(map[string]string{"id": piece.ID}))
	}
	if data, err := base64.StdEncoding.DecodeString(piece.Data); err == nil {
		a.audio.data = append(a.audio.data, data...)
	}
	if piece.Transcript != "" {
		a.say(piece.Transcript)
	}
}

// madeParts are the images and the audio of the answer.
func (a *answer) madeParts(req actors.Request) []actors.Part {
	if len(a.audio.data) == 0 {
		return a.parts
	}
	format := "wav"
	if asked, ok := req.Options.Extra["audio"].(map[string]any); ok {
		if name, ok := asked["format"].(string); ok {
			format = name
		}
	}
	mime := map[string]string{"mp3": "audio/mpeg", "pcm16": "audio/pcm"}[format]
	if mime == "" {
		mime = "audio/" + format
	}
	return append(a.parts, actors.Part{MIME: mime, Data: a.audio.data, Name: a.audio.id})
}

// keepReply keeps a reply as it came, or an event of a stream.
func (a *answer) keepReply(data []byte, streamed bool) {
	if a.keepsRaw && json.Valid(data) {
		a.raw, a.streamed = append(a.raw, json.RawMessage(string(data))), streamed
	}
}

// rawReply is the reply as it came; nil if it was not asked for.
func (a *answer) rawReply() json.RawMessage {
	switch {
	case len(a.raw) == 0:
		return nil
	case a.streamed:
		return mustMarshal(a.raw)
	}
	return a.raw[len(a.raw)-1]
}

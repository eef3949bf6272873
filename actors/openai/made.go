package openai

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/reprise-go/reprise/actors"
)

// Output other than text: log probabilities, citations, images and audio.

// wireLogprob is the log probability of a token, in both APIs.
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

func (a *answer) addLogprobs(tokens []wireLogprob) {
	for _, token := range tokens {
		a.logprobs = append(a.logprobs, token.actors())
	}
}

// wireAnnotation is a citation. In the chat completions API, its fields are in a nested object.
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

func (a *answer) addAnnotations(annotations []wireAnnotation) {
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

// addSources sets the citations from a list of URLs. Each event of a stream contains
// the complete list.
func (a *answer) addSources(list json.RawMessage) {
	var urls []string
	if json.Unmarshal(list, &urls) != nil || len(urls) == 0 {
		return
	}
	a.citations = a.citations[:0]
	for _, url := range urls {
		a.citations = append(a.citations, actors.Citation{URL: url})
	}
}

// An imageURL is the URL of an image: a string or an object with a field url.
type imageURL string

// UnmarshalJSON accepts either form. null is empty.
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

// addImage adds an image given as base64 data, as a data URL, or as another URL.
func (a *answer) addImage(image string) {
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

// audio is the spoken answer of a model.
type audio struct {
	id   string
	data []byte
}

// addAudio adds audio data or a piece of it. The transcript becomes the text of the
// answer.
func (a *answer) addAudio(piece *chatAudio) {
	if piece.ID != "" {
		a.audio.id = piece.ID
		a.keepField("audio", mustMarshal(map[string]string{"id": piece.ID}))
	}
	if data, err := base64.StdEncoding.DecodeString(piece.Data); err == nil {
		a.audio.data = append(a.audio.data, data...)
	}
	if piece.Transcript != "" {
		a.addText(piece.Transcript)
	}
}

// outputParts returns the images and the audio of the answer.
func (a *answer) outputParts(req actors.Request) []actors.Part {
	if len(a.audio.data) == 0 {
		return a.parts
	}
	format := "wav"
	if asked, ok := req.Options.ExtraBody["audio"].(map[string]any); ok {
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

// keepReply keeps a raw reply or an event of a stream, if requested.
func (a *answer) keepReply(data []byte, streamed bool) {
	if a.keepsRaw && json.Valid(data) {
		a.raw, a.streamed = append(a.raw, json.RawMessage(string(data))), streamed
	}
}

// rawReply returns the raw reply, or nil if it was not requested.
func (a *answer) rawReply() json.RawMessage {
	switch {
	case len(a.raw) == 0:
		return nil
	case a.streamed:
		return mustMarshal(a.raw)
	}
	return a.raw[len(a.raw)-1]
}

// Hello is the smallest program: an agent with one tool, one run, one answer.
// It asks the service at OPENAI_BASE_URL, or OpenAI's, with OPENAI_API_KEY.
package main

// Hello is a minimal program: a run with an agent that has one tool. It uses the service at
// OPENAI_BASE_URL (by default OpenAI), with the key in OPENAI_API_KEY.
package main

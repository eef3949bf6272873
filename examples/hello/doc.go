// Hello is a minimal program: an agent with one tool makes one run. It uses the service
// at OPENAI_BASE_URL (by default OpenAI), with the key in OPENAI_API_KEY.
package main

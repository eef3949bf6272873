// Package httperror turns HTTP responses that are no success into errors that
// Reprise understands: with the status code, which decides whether a call is
// tried again, and the delay that the service asks for.
//
//	resp, err := client.Do(req)
//	if err != nil {
//		return nil, err
//	}
//	defer resp.Body.Close()
//	if err := httperror.Check(resp); err != nil {
//		return nil, err
//	}
package httperror

// Package httperror turns unsuccessful HTTP responses into errors. The errors carry the status
// code, which decides whether a call is retried, and the delay that the service requested.
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

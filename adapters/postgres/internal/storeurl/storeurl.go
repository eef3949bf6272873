// Package storeurl parses a store's URL, which names a database and a schema in it.
package storeurl

import (
	"errors"
	"net/url"
)

// Parse splits a URL such as postgres://app@db/app?schema=runs into the URL of the database and the
// name of the schema, which is empty if the URL does not contain the parameter. Errors from Parse
// contain no passwords.
func Parse(storeURL string) (database, schema string, err error) {
	u, err := url.Parse(storeURL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" { // an error from url.Parse may contain a password
		return "", "", errors.New("the URL of the store is not a PostgreSQL URL; want one such as postgres://app@db/app")
	}
	parameters := u.Query()
	schema = parameters.Get("schema")
	parameters.Del("schema")
	u.RawQuery = parameters.Encode()
	return u.String(), schema, nil
}

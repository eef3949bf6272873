// Package callsite makes the addresses of calls. Calls with the same name in the same scope are
// numbered. Users see an address as a record.Address, which is a [Call] with
// exported methods.
package callsite

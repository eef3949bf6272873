// Package callsite makes the addresses of calls: each call has a number among the calls with
// one name in one scope. Users see an address as a record.Address, which is a [Call] with
// exported methods.
package callsite

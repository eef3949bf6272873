// Command release makes a release of this repository: tools/release.sh VERSION.
//
// It refuses a VERSION that exists, that is not above the last one, or is none; a tree that
// is dirty, or has a replace directive that it cannot drop; a CHANGELOG.md without a section
// of the version; golden files that were changed since the last release; and a patch that
// takes something out of the API. Then it checks out the commit anew and runs .ci/run and
// `make fuzz FUZZTIME=5m` there.
//
// It makes two commits: one that dates the section of CHANGELOG.md, which becomes that of
// the branch, and on top of it one that is only tagged. In that, the nested modules that
// users import require the version of the root module, without a replace directive: it is
// what `go install` gets. All modules are tagged on it, after they were installed from a
// file-system proxy into an empty GOPATH, as a user does. What fails leaves nothing behind.
// Nothing is pushed; the last line says how.
package main

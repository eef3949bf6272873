// Command release makes a release of this repository: tools/release.sh VERSION.
//
// It refuses a VERSION that is invalid, already exists, or is not above the last one. It refuses a
// dirty tree, a checkout without a branch, a replace directive that it cannot drop, a CHANGELOG.md
// without a section for the version, and golden files that were changed since the last release. It
// also refuses a release that removes something from the API, unless it is a minor release before
// 1.0. Then it checks out the commit into a new directory, and runs `.ci/run all` and `make fuzz
// FUZZTIME=5m` there.
//
// It makes two commits. The first one dates the section in CHANGELOG.md and becomes the head of the
// branch. The second one is on top of the first, and is only tagged. In the second commit, the
// nested modules that users import require the new version of the root module, without a replace
// directive: this is what `go install` downloads. Before the modules are tagged, they are all
// installed from a file-system proxy into an empty GOPATH, as a user would install them. If
// anything fails, the repository is left unchanged. Nothing is pushed; the last line of output is
// the command for pushing.
package main

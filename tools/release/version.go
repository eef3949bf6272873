package main

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// checkVersion returns an error if a version is invalid, already exists, or is not above the last
// one. Otherwise, it returns the last version, or "" if there is none.
func checkVersion(ctx context.Context, dir, version string) (last string, err error) {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return "", fmt.Errorf("%q is not a version; want one such as v0.1.0 or v1.0.0-rc.1", version)
	}
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return "", fmt.Errorf("%s requires modules whose paths end with /%s: change go.mod and the imports first", version, major)
	}
	tags, err := tagsOf(ctx, dir)
	if err != nil {
		return "", err
	}
	for _, tag := range tags {
		at := tag[strings.LastIndexByte(tag, '/')+1:]
		if !semver.IsValid(at) {
			continue
		}
		if at == version {
			return "", fmt.Errorf("%s exists: the tag %s is present", version, tag)
		}
		if last == "" || semver.Compare(at, last) > 0 {
			last = at
		}
	}
	if last != "" && semver.Compare(version, last) < 0 {
		return "", fmt.Errorf("%s is lower than the last version, %s", version, last)
	}
	return last, nil
}

// tagsOf returns the tags in the local repository and in its remotes.
func tagsOf(ctx context.Context, dir string) ([]string, error) {
	here, err := git(ctx, dir, "tag", "--list")
	if err != nil {
		return nil, err
	}
	tags := strings.Fields(here)
	remotes, err := git(ctx, dir, "remote")
	if err != nil {
		return nil, err
	}
	for _, remote := range strings.Fields(remotes) {
		there, err := git(ctx, dir, "ls-remote", "--tags", "--refs", remote)
		if err != nil {
			return nil, fmt.Errorf("the tags of %s: %w", remote, err)
		}
		for _, line := range strings.Split(there, "\n") {
			if _, tag, ok := strings.Cut(line, "refs/tags/"); ok {
				tags = append(tags, tag)
			}
		}
	}
	return tags, nil
}

// isPatch reports whether a version may only fix its predecessor.
func isPatch(version, last string) bool {
	return last != "" && semver.MajorMinor(version) == semver.MajorMinor(last)
}

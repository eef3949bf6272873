package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	module = "github.com/reprise-go/reprise/"
	begin  = "<!-- begin of the table that `cd tools && go run ./imports` writes -->\n"
	end    = "<!-- end of the table -->\n"
	header = "| package | imports, besides the standard library |\n|---|---|\n"
)

// cut returns the table in a document, and the text before and after it. The lines that mark the
// table do not belong to it.
func cut(document string) (before, table, after string, err error) {
	before, rest, found := strings.Cut(document, begin)
	table, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", "", "", errors.New("the lines that mark the table are missing")
	}
	return before + begin, table, end + after, nil
}

// A configuration is the part of .golangci.yml that contains the import rules.
type configuration struct {
	Linters struct {
		Settings struct {
			Depguard struct {
				Rules map[string]rule
			}
		}
	}
}

// A rule is a depguard rule for the packages of some folders.
type rule struct {
	Mode  string `yaml:"list-mode"`
	Files []string
	Allow []string
	Deny  []struct{ Pkg, Desc string }
}

// onlyImporter is the end of the description in a rule if a dependency has only one importer.
const onlyImporter = " is its only importer"

// tableOf returns a table of the rules in strict mode, which list everything that a package may
// import. The table has one row for each rule. The rows are sorted by the name of the rule's first
// package.
func tableOf(config []byte) (string, error) {
	var c configuration
	if err := yaml.Unmarshal(config, &c); err != nil {
		return "", err
	}
	owner := make(map[string]string) // by dependency
	rows := make(map[string]string)  // by the first folder
	for _, r := range c.Linters.Settings.Depguard.Rules {
		for _, d := range r.Deny {
			if name, found := strings.CutSuffix(d.Desc, onlyImporter); found {
				owner[d.Pkg] = name
			}
		}
	}
	for name, r := range c.Linters.Settings.Depguard.Rules {
		if r.Mode != "strict" {
			continue
		}
		folders := r.folders()
		if len(folders) == 0 {
			return "", fmt.Errorf("the rule %s is in strict mode, but applies to no folder below ${base-path}", name)
		}
		rows[folders[0]] += fmt.Sprintf("| %s | %s |\n", quoted(folders), r.imports(folders, owner))
	}
	if len(rows) == 0 {
		return "", errors.New("depguard has no rule in strict mode")
	}
	table := header
	for _, folder := range slices.Sorted(maps.Keys(rows)) {
		table += rows[folder]
	}
	return table, nil
}

// foldersOf returns the folders of all rules in strict mode.
func foldersOf(config []byte) ([]string, error) {
	var c configuration
	if err := yaml.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	var folders []string
	for _, r := range c.Linters.Settings.Depguard.Rules {
		if r.Mode == "strict" {
			folders = append(folders, r.folders()...)
		}
	}
	return folders, nil
}

// folders returns the folders of the packages that the rule applies to.
func (r *rule) folders() []string {
	var folders []string
	for _, file := range r.Files {
		if folder, found := strings.CutPrefix(file, "${base-path}/"); found {
			folders = append(folders, strings.TrimSuffix(folder, "/**"))
		}
	}
	slices.Sort(folders)
	return folders
}

// imports returns a description of what the packages in the folders may import.
func (r *rule) imports(folders []string, owner map[string]string) string {
	var own, others []string
	for _, path := range r.Allow {
		path = strings.TrimSuffix(path, "$")
		switch {
		case path == "$gostd":
		case strings.HasPrefix(path, module):
			own = append(own, strings.TrimPrefix(path, module))
		case isOwned(path, folders, owner):
			others = append(others, quoted([]string{path})+" as its only importer")
		default:
			others = append(others, quoted([]string{path}))
		}
	}
	slices.Sort(own)
	slices.Sort(others)
	var denied []string
	for _, d := range r.Deny {
		denied = append(denied, "no "+quoted([]string{d.Pkg}))
	}
	var parts []string
	for _, part := range []string{quoted(own), strings.Join(others, ", "), strings.Join(denied, ", ")} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if len(own) == 0 && len(others) == 0 {
		parts = slices.Insert(parts, 0, "nothing")
	}
	return strings.Join(parts, "; ")
}

// isOwned reports whether one of the folders is the only importer of the dependency path.
func isOwned(path string, folders []string, owner map[string]string) bool {
	for dependency, folder := range owner {
		if (path == dependency || strings.HasPrefix(path, dependency+"/")) && slices.Contains(folders, folder) {
			return true
		}
	}
	return false
}

func quoted(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

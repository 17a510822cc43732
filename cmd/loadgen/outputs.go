package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
)

// outputs are where a run's results go: a table, or JSON, or both; and the profile.
type outputs struct {
	table io.Writer // nil: none, standard output belongs to the JSON
	width int       // of the table; 0: as wide as it has to be
	json  io.Writer // nil: none
	file  *os.File  // behind json, if it is not standard output
	cpu   *cpuProfile
}

// openOutputs opens the files, so that a bad name is a usage error and not the end of a
// long run.
func openOutputs(cfg *config.Config, stdout io.Writer) (*outputs, error) {
	o := &outputs{table: stdout, width: tableWidth(stdout, os.Getenv)}
	switch cfg.JSON {
	case "":
	case "-":
		o.table, o.json = nil, stdout
	default:
		f, err := os.Create(cfg.JSON)
		if err != nil {
			return nil, fmt.Errorf("--json: %w", err)
		}
		o.file, o.json = f, f
	}
	var err error
	if o.cpu, err = newCPUProfile(cfg.CPUProfile); err != nil {
		_ = o.close() // the name of the profile is the news
		return nil, err
	}
	return o, nil
}

// write writes the report and closes the files.
func (o *outputs) write(r *report.Report) (err error) {
	if o.table != nil {
		_, err = io.WriteString(o.table, r.Table(o.width))
	}
	if err == nil && o.json != nil {
		err = r.WriteJSON(o.json)
	}
	return errors.Join(err, o.close())
}

func (o *outputs) close() error {
	var err error
	if o.file != nil {
		err = o.file.Close()
		o.file = nil
	}
	if o.cpu != nil {
		if stopErr := o.cpu.stop(); err == nil {
			err = stopErr
		}
	}
	return err
}

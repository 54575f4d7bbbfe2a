package main

import (
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// database are the flags of the commands that speak to Postgres itself.
type database struct {
	// The flags' library repeats a value that it cannot take, so it is given
	// one that it always can, and the URL is checked here.
	DatabaseURL daemon.Secret `name:"database-url" env:"COUNTERSIGN_DATABASE_URL" required:"" placeholder:"URL" help:"Postgres, as the owner of the schema."`
	Tenant      string        `env:"COUNTERSIGN_TENANT" default:"default" help:"The tenant that it is about."`
}

func (d database) url() (string, error) {
	var url daemon.URL
	if err := url.UnmarshalText([]byte(d.DatabaseURL.Reveal())); err != nil {
		return "", usagef("--database-url or COUNTERSIGN_DATABASE_URL %w", err)
	}
	return url.Reveal(), nil
}

func (d database) open() (*store.Store, error) {
	url, err := d.url()
	if err != nil {
		return nil, err
	}
	return store.New(url, store.Options{})
}

func (d database) tenant() model.TenantID { return model.TenantID(d.Tenant) }

module github.com/weft-go/weft

go 1.26.0

require (
	github.com/emer/empi v1.0.22
	github.com/stretchr/testify v1.12.1
	golang.org/x/sync v0.25.0
	golang.org/x/sys v0.50.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

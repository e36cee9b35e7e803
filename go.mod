module github.com/weft-go/weft

go 1.26.0

require (
	github.com/emer/empi v1.0.22 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

//go:build race

package plan

const raceDetector = true

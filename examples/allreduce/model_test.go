package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The gradient is that of the loss: it agrees with differences of the loss.
func TestGradient(t *testing.T) {
	images, err := loadDigits()
	require.NoError(t, err)
	for _, seed := range []uint64{1, 2} {
		p := newParams(seed)
		im := &images[seed]
		grad := make(params, numParams)
		loss := p.addGradient(im, grad)
		var a activations
		want, _ := p.forward(im, &a)
		require.Equal(t, want, loss)
		require.False(t, math.IsNaN(loss))

		const h = 1e-2 // float32 sums don't allow much less
		for i := range p {
			v := p[i]
			p[i] = v + h
			up, _ := p.forward(im, &a)
			p[i] = v - h
			down, _ := p.forward(im, &a)
			p[i] = v
			require.InDelta(t, (up-down)/(2*h), float64(grad[i]), 1e-3, "parameter %d", i)
		}
	}
}

func TestGradientAdds(t *testing.T) {
	images, err := loadDigits()
	require.NoError(t, err)
	p := newParams(1)
	once, twice := make(params, numParams), make(params, numParams)
	p.addGradient(&images[0], once)
	p.addGradient(&images[0], twice)
	p.addGradient(&images[0], twice)
	for i := range once {
		require.Equal(t, 2*once[i], twice[i])
	}
}

func TestForwardProbabilities(t *testing.T) {
	images, err := loadDigits()
	require.NoError(t, err)
	p := newParams(3)
	for i := range images[:50] {
		var a activations
		loss, _ := p.forward(&images[i], &a)
		var sum float64
		for _, v := range a.prob {
			sum += float64(v)
		}
		require.InDelta(t, 1, sum, 1e-5)
		require.InDelta(t, -math.Log(float64(a.prob[images[i].label])), loss, 1e-4)
	}
}

package main

import (
	"math"
	"math/rand/v2"
)

const (
	hidden = 64
	// The parameters are one slice, so that one AllReduce sums all gradients.
	offB1     = hidden * pixels
	offW2     = offB1 + hidden
	offB2     = offW2 + classes*hidden
	numParams = offB2 + classes
)

// params are the parameters of a network with one hidden layer of tanh units
// and a softmax on top: w1[hidden][pixels], b1, w2[classes][hidden], b2. A
// gradient has the same form.
type params []float32

// newParams returns random parameters, the same for the same seed.
func newParams(seed uint64) params {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := make(params, numParams)
	fill := func(w []float32, inputs int) {
		scale := 1 / math.Sqrt(float64(inputs))
		for i := range w {
			w[i] = float32(rng.NormFloat64() * scale)
		}
	}
	fill(p[:offB1], pixels)
	fill(p[offW2:offB2], hidden)
	return p
}

// activations are the intermediate values for one image.
type activations struct {
	hidden [hidden]float32
	prob   [classes]float32
}

// forward fills a and returns the loss, the negative log-likelihood of the
// label, and whether the label is the most likely class.
func (p params) forward(im *image, a *activations) (loss float64, correct bool) {
	for h := range hidden {
		z := p[offB1+h] + dot(p[h*pixels:(h+1)*pixels], im.pixels[:])
		a.hidden[h] = float32(math.Tanh(float64(z)))
	}
	best := 0
	var z [classes]float64
	for c := range classes {
		z[c] = float64(p[offB2+c] + dot(p[offW2+c*hidden:offW2+(c+1)*hidden], a.hidden[:]))
		if z[c] > z[best] {
			best = c
		}
	}
	var sum float64
	for c := range classes {
		sum += math.Exp(z[c] - z[best])
	}
	for c := range classes {
		a.prob[c] = float32(math.Exp(z[c]-z[best]) / sum)
	}
	return math.Log(sum) + z[best] - z[im.label], best == im.label
}

// addGradient adds the gradient of the loss for one image to grad and returns
// the loss.
func (p params) addGradient(im *image, grad params) float64 {
	var a activations
	loss, _ := p.forward(im, &a)
	var back [hidden]float32
	for c := range classes {
		d := a.prob[c]
		if c == im.label {
			d--
		}
		grad[offB2+c] += d
		axpy(d, a.hidden[:], grad[offW2+c*hidden:offW2+(c+1)*hidden])
		axpy(d, p[offW2+c*hidden:offW2+(c+1)*hidden], back[:])
	}
	for h := range hidden {
		d := back[h] * (1 - a.hidden[h]*a.hidden[h])
		grad[offB1+h] += d
		axpy(d, im.pixels[:], grad[h*pixels:(h+1)*pixels])
	}
	return loss
}

// dot returns the scalar product of x and y.
func dot(x, y []float32) float32 {
	var sum float32
	y = y[:len(x)]
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

// axpy adds a·x to y.
func axpy(a float32, x, y []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += a * v
	}
}

package main

import (
	"context"
	"math/rand/v2"
)

const (
	batchSize = 64  // images of one step, over all ranks
	rate      = 0.2 // learning rate
	momentum  = 0.9
)

// options are the settings of a run.
type options struct {
	ranks    int // if no launcher says otherwise
	epochs   int
	accuracy float64 // wanted; with the default epochs, seeds 1 to 40 reach 0.95
	seed     uint64
	device   string // where gradients are summed: "cpu", "cuda"; "auto" is what there is
}

// An epoch is what is known after each pass over the training images.
type epoch struct {
	number    int
	trainLoss float64 // mean over the steps of the epoch
	testLoss  float64
	accuracy  float64 // on the test images
}

// train trains data-parallel: each rank computes the gradient of its own
// images, and all ranks take the same step along the sum. Whatever the number
// of ranks, a step uses the same images. Each rank calls report after each
// epoch.
func train(ctx context.Context, w world, images, tests []image, opt options, report func(epoch)) (params, error) {
	own := share(images, w.Rank(), w.Size())
	ownTests := share(tests, w.Rank(), w.Size())

	p := make(params, numParams)
	if w.Rank() == 0 {
		copy(p, newParams(opt.seed))
	}
	if err := w.Spread(ctx, p); err != nil {
		return nil, err
	}

	// The last two elements sum the loss and the number of images.
	sums := make([]float32, numParams+2)
	grad, loss, count := params(sums[:numParams]), &sums[numParams], &sums[numParams+1]
	velocity := make(params, numParams)
	var e epoch
	for e.number = 1; e.number <= opt.epochs; e.number++ {
		e.trainLoss = 0
		order := rand.New(rand.NewPCG(opt.seed, uint64(1+e.number))).Perm(len(images))
		for len(order) > 0 {
			batch := order[:min(batchSize, len(order))]
			order = order[len(batch):]
			clear(sums)
			for _, k := range batch {
				if k%w.Size() == w.Rank() { // as share deals them out
					*loss += float32(p.addGradient(&own[k/w.Size()], grad))
					*count++
				}
			}
			if err := w.SumGradient(ctx, sums); err != nil {
				return nil, err
			}
			e.trainLoss += float64(*loss)
			p.step(grad, velocity, rate / *count)
		}
		e.trainLoss /= float64(len(images))
		var err error
		if e.testLoss, e.accuracy, err = evaluate(ctx, w, p, ownTests); err != nil {
			return nil, err
		}
		report(e)
	}
	return p, nil
}

// step moves p along the summed gradient.
func (p params) step(grad, velocity params, scale float32) {
	for i := range p {
		velocity[i] = momentum*velocity[i] - scale*grad[i]
		p[i] += velocity[i]
	}
}

// evaluate returns the mean loss and the share of right answers over the
// images of all ranks.
func evaluate(ctx context.Context, w world, p params, own []image) (loss, accuracy float64, err error) {
	var a activations
	sums := make([]float64, 3) // loss, right answers, images
	for i := range own {
		l, correct := p.forward(&own[i], &a)
		sums[0] += l
		if correct {
			sums[1]++
		}
		sums[2]++
	}
	if err := w.Sum(ctx, sums); err != nil {
		return 0, 0, err
	}
	return sums[0] / sums[2], sums[1] / sums[2], nil
}

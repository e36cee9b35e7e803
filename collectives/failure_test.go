package collectives

func failureProgram() error { return nil }

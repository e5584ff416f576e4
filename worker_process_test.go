package dibs_test

const processEnv = "DIBS_TEST_PROCESS"

func process() int { return 0 }

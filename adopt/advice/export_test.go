package advice

import "time"

func init() { checkTime, briefTime = time.Minute, time.Minute }

# loadgen, with a server of its own: docker build -t holdfast-loadgen . && docker run --rm holdfast-loadgen
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -o /loadgen ./cmd/loadgen

FROM redis:8
COPY --from=build /loadgen /usr/local/bin/loadgen
USER 999
WORKDIR /tmp
ENTRYPOINT ["loadgen"]
CMD ["run", "--duration", "10s"]
